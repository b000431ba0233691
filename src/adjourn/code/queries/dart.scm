; What a Dart file defines, imports, and says rather than does.
(class_definition name: (identifier) @name) @definition.class
(mixin_declaration (mixin) . (identifier) @name) @definition.class
(extension_declaration name: (identifier) @name) @definition.class
(extension_type_declaration name: (identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.enum
(enum_constant name: (identifier) @name) @definition.constant
(type_alias . (type_identifier) @name) @definition.type
(program [(function_signature name: (identifier) @name) @definition.function (getter_signature name: (identifier) @name) @definition.property (setter_signature name: (identifier) @name) @definition.property])
(method_signature (function_signature name: (identifier) @name)) @definition.method
(method_signature [(getter_signature name: (identifier) @name) (setter_signature name: (identifier) @name)]) @definition.property
(method_signature [(constructor_signature) (factory_constructor_signature (identifier) @name . (formal_parameter_list))]) @definition.method
(method_signature (constructor_signature name: (identifier) @name . (_)? . parameters: (_))) @definition.method
(method_signature (operator_signature [(binary_operator) "[]" "[]=" "~"] @name)) @definition.method
(declaration (function_signature name: (identifier) @name)) @definition.method
(declaration [(getter_signature name: (identifier) @name) (setter_signature name: (identifier) @name)]) @definition.property
(declaration (constant_constructor_signature (identifier) @name . (formal_parameter_list))) @definition.method
(local_function_declaration (lambda_expression parameters: (function_signature name: (identifier) @name)) @definition.function)
(program (static_final_declaration_list (static_final_declaration . (identifier) @name) @definition.constant))
(program (initialized_identifier_list (initialized_identifier . (identifier) @name) @definition.variable))
(declaration (const_builtin) (static_final_declaration_list (static_final_declaration . (identifier) @name))) @definition.constant
(declaration (static_final_declaration_list (static_final_declaration . (identifier) @name))) @definition.field
(declaration (initialized_identifier_list (initialized_identifier . (identifier) @name))) @definition.field
(import_or_export) @import
(part_directive) @import
(part_of_directive) @import
(type_identifier) @type
(comment) @comment
(documentation_comment) @comment
(string_literal) @string
(template_substitution) @code
