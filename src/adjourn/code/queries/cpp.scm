; What C++ adds.
(class_specifier name: (type_identifier) @name body: (_)) @definition.class
(namespace_definition name: (_) @name) @definition.namespace
(function_definition declarator: (function_declarator declarator: (qualified_identifier) @name)) @definition.method
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (qualified_identifier) @name))) @definition.method
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier) @name))) @definition.method
(function_definition declarator: (function_declarator declarator: [(destructor_name) (operator_name)] @name)) @definition.method
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @definition.prototype
(alias_declaration name: (type_identifier) @name) @definition.type
(using_declaration) @import
(raw_string_content) @string
