; What a Lua file defines, requires, and says rather than does.
(function_declaration name: (identifier) @name) @definition.function
(function_declaration name: (dot_index_expression table: (_) @scope field: (identifier) @name)) @definition.function
(function_declaration name: (method_index_expression table: (_) @scope method: (identifier) @name)) @definition.method
(assignment_statement (variable_list . name: (identifier) @name) (expression_list . value: (function_definition))) @definition.function
(assignment_statement (variable_list . name: (dot_index_expression table: (_) @scope field: (identifier) @name)) (expression_list . value: (function_definition))) @definition.function
(chunk (variable_declaration (assignment_statement (variable_list name: (identifier) @name . attribute: (attribute (identifier) @attribute)) (#eq? @attribute "const"))) @definition.constant)
(chunk (variable_declaration [(variable_list name: (identifier) @name) (assignment_statement (variable_list name: (identifier) @name))]) @definition.variable)
(chunk (assignment_statement (variable_list name: (identifier) @name)) @definition.variable)
(chunk (assignment_statement (variable_list name: (dot_index_expression table: (_) @scope field: (identifier) @name))) @definition.field)
(chunk [(variable_declaration (assignment_statement (expression_list (table_constructor (field name: (identifier) @name value: (function_definition)) @definition.method))))
        (assignment_statement (expression_list (table_constructor (field name: (identifier) @name value: (function_definition)) @definition.method)))])
(chunk [(variable_declaration (assignment_statement (expression_list (table_constructor (field name: (identifier) @name) @definition.field))))
        (assignment_statement (expression_list (table_constructor (field name: (identifier) @name) @definition.field)))])
(variable_declaration (assignment_statement (expression_list (function_call name: (identifier) @require (#eq? @require "require"))))) @import
(function_call name: (identifier) @require (#eq? @require "require")) @import
(comment) @comment
(string_content) @string
