; What a Kotlin file defines, imports, and says rather than does.
(class_declaration (modifiers (class_modifier "enum")) name: (identifier) @name) @definition.enum
(class_declaration "interface" name: (identifier) @name) @definition.interface
(class_declaration name: (identifier) @name) @definition.class
(object_declaration name: (identifier) @name) @definition.class
(companion_object name: (identifier) @name) @definition.class
(enum_entry . (identifier) @name) @definition.constant
(enum_entry (modifiers) . (identifier) @name) @definition.constant
(type_alias type: (identifier) @name) @definition.type
(class_body (function_declaration name: (identifier) @name) @definition.method)
(enum_class_body (function_declaration name: (identifier) @name) @definition.method)
(function_declaration (user_type . (identifier) @scope) . "." . name: (identifier) @name) @definition.function
(function_declaration name: (identifier) @name) @definition.function
(secondary_constructor "constructor" @name) @definition.method
(class_parameter ["val" "var"] . (identifier) @name) @definition.field
(property_declaration (modifiers (property_modifier "const")) (variable_declaration (identifier) @name)) @definition.constant
(source_file (property_declaration (variable_declaration . (identifier) @name)) @definition.variable)
(source_file (property_declaration (multi_variable_declaration (variable_declaration . (identifier) @name))) @definition.variable)
(class_body (property_declaration (variable_declaration . (identifier) @name) (getter)) @definition.property)
(class_body (property_declaration (variable_declaration . (identifier) @name)) @definition.field)
(enum_class_body (property_declaration (variable_declaration . (identifier) @name)) @definition.field)
(import (qualified_identifier) "as" (identifier) @name) @definition.alias
(import) @import
(user_type) @type
(line_comment) @comment
(block_comment) @comment
(string_content) @string
