; What a Python file defines, imports, and says rather than does.
(function_definition name: (identifier) @name) @definition.function
(class_definition name: (identifier) @name) @definition.class
(module (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.variable))
(module [(if_statement (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.variable)))
         (if_statement (_ (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.variable))))
         (try_statement (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.variable)))
         (try_statement (_ (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.variable))))])
(assignment right: (assignment left: (identifier) @name) @definition.variable)
(class_definition body: (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.field)))
(class_definition body: (block (if_statement [(block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.field))
                                              (_ (block (expression_statement (assignment left: [(identifier) @name (pattern_list (identifier) @name)]) @definition.field)))])))
(assignment left: [(attribute object: (identifier) @self attribute: (identifier) @name)
                   (pattern_list (attribute object: (identifier) @self attribute: (identifier) @name))] (#eq? @self "self")) @definition.field
(aliased_import alias: (identifier) @name) @definition.alias
(type_alias_statement left: (type (identifier) @name)) @definition.type
(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import
(type) @type
(comment) @comment
(string_content) @string
