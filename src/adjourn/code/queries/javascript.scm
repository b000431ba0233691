; What JavaScript and TypeScript have in common.
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.method
(program (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @definition.function))
(program (variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @definition.function))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @definition.function))
(program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(assignment_expression left: (member_expression property: (property_identifier) @name) right: [(arrow_function) (function_expression)]) @definition.function
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @definition.method
(assignment_expression left: (member_expression object: (this) property: (property_identifier) @name)) @definition.field
(import_specifier alias: (identifier) @name) @definition.alias
(namespace_import (identifier) @name) @definition.alias
(import_statement) @import
(variable_declarator value: (call_expression function: (identifier) @require (#eq? @require "require"))) @import
(export_statement) @export
(comment) @comment
(string_fragment) @string
(regex_pattern) @string
