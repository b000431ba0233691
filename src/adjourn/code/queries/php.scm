; What a PHP file defines, imports, and says rather than does.
(function_definition name: (name) @name) @definition.function
(method_declaration name: (name) @name) @definition.method
(class_declaration name: (name) @name) @definition.class
(interface_declaration name: (name) @name) @definition.interface
(trait_declaration name: (name) @name) @definition.trait
(enum_declaration name: (name) @name) @definition.enum
(enum_case name: (name) @name) @definition.constant
(namespace_definition name: (namespace_name) @name) @definition.namespace
(property_element name: (variable_name (name) @name)) @definition.field
(const_element (name) @name) @definition.constant
(namespace_use_declaration) @import
(require_once_expression) @import
(require_expression) @import
(include_once_expression) @import
(include_expression) @import
(named_type) @type
(comment) @comment
(string_content) @string
(text) @string
