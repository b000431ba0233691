; What a Terraform file declares, and says rather than does.
(block . (identifier) @type_of . (string_lit (template_literal) @scope) . (string_lit (template_literal) @name) (#any-of? @type_of "resource" "data")) @definition.resource
(block . (identifier) @type_of . (string_lit (template_literal) @name) (#eq? @type_of "variable")) @definition.variable
(block . (identifier) @type_of . (string_lit (template_literal) @name) (#eq? @type_of "output")) @definition.output
(block . (identifier) @type_of . (string_lit (template_literal) @name) (#eq? @type_of "module")) @definition.module
(block . (identifier) @type_of (body (attribute . (identifier) @name) @definition.constant) (#eq? @type_of "locals"))
(config_file (body (block . (identifier) @scope . (string_lit (template_literal) @name) . (block_start)) @definition.resource))
(config_file (body (block . (identifier) . (string_lit (template_literal) @scope) . (string_lit (template_literal) @name) . (block_start)) @definition.resource))
(config_file (body (attribute . (identifier) @name) @definition.variable))
(comment) @comment
(template_literal) @string
