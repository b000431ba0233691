; The rules of a style sheet, by their selectors.
(rule_set (selectors) @name) @definition.selector
(keyframes_statement (keyframes_name) @name) @definition.keyframes
(declaration (property_name) @name (#match? @name "^--")) @definition.variable
(import_statement) @import
(comment) @comment
(string_content) @string
