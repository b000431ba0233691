; What a Zig file defines, imports, and says rather than does.
(variable_declaration . (identifier) @name (struct_declaration)) @definition.struct
(variable_declaration . (identifier) @name (union_declaration)) @definition.struct
(variable_declaration . (identifier) @name (opaque_declaration)) @definition.struct
(variable_declaration . (identifier) @name (enum_declaration)) @definition.enum
(variable_declaration . (identifier) @name (error_set_declaration)) @definition.enum
(variable_declaration (identifier) @name (builtin_function (builtin_identifier) @builtin (#eq? @builtin "@import"))) @definition.alias
(variable_declaration (identifier) @name (field_expression object: (builtin_function (builtin_identifier) @builtin (#eq? @builtin "@import")))) @definition.alias
(function_declaration name: (identifier) @name) @definition.function
(error_set_declaration (identifier) @name @definition.constant)
(enum_declaration (container_field name: (identifier) @name) @definition.constant)
(container_field name: (identifier) @name) @definition.field
([(source_file (variable_declaration "const" . (identifier) @name) @definition.constant)
  (struct_declaration (variable_declaration "const" . (identifier) @name) @definition.constant)
  (union_declaration (variable_declaration "const" . (identifier) @name) @definition.constant)
  (enum_declaration (variable_declaration "const" . (identifier) @name) @definition.constant)])
([(source_file (variable_declaration "var" . (identifier) @name) @definition.variable)
  (struct_declaration (variable_declaration "var" . (identifier) @name) @definition.variable)])
(variable_declaration (builtin_function (builtin_identifier) @builtin (#eq? @builtin "@import"))) @import
(variable_declaration (field_expression object: (builtin_function (builtin_identifier) @builtin (#eq? @builtin "@import")))) @import
(_ type: (identifier) @type)
(comment) @comment
(string_content) @string
(multiline_string) @string
