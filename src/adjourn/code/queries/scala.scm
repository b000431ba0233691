; What a Scala file defines, imports, and says rather than does.
(class_definition name: (identifier) @name) @definition.class
(object_definition name: (identifier) @name) @definition.class
(package_object name: (identifier) @name) @definition.namespace
(trait_definition name: (identifier) @name) @definition.trait
(enum_definition name: (identifier) @name) @definition.enum
(simple_enum_case name: (identifier) @name) @definition.constant
(full_enum_case name: (identifier) @name) @definition.constant
(type_definition name: (type_identifier) @name) @definition.type
(extension_definition parameters: (parameters (parameter type: [(type_identifier) @scope (generic_type type: (type_identifier) @scope)])) body: [(function_definition name: (_) @name) @definition.method (_ (function_definition name: (_) @name) @definition.method)])
(template_body [(function_definition name: (_) @name) (function_declaration name: (_) @name)] @definition.method)
(enum_body [(function_definition name: (_) @name) (function_declaration name: (_) @name)] @definition.method)
(function_definition name: (_) @name) @definition.function
(class_definition class_parameters: (class_parameters (class_parameter ["val" "var"] name: (identifier) @name) @definition.field))
(class_definition "case" class_parameters: (class_parameters (class_parameter name: (identifier) @name) @definition.field))
(compilation_unit [(val_definition pattern: [(identifier) @name (tuple_pattern (identifier) @name)]) (var_definition pattern: [(identifier) @name (tuple_pattern (identifier) @name)]) (given_definition name: (identifier) @name)] @definition.variable)
(template_body [(val_definition pattern: [(identifier) @name (tuple_pattern (identifier) @name)]) (var_definition pattern: [(identifier) @name (tuple_pattern (identifier) @name)]) (val_declaration name: (identifier) @name) (var_declaration name: (identifier) @name) (given_definition name: (identifier) @name)] @definition.field)
(as_renamed_identifier alias: (identifier) @name) @definition.alias
(import_declaration) @import
(type_identifier) @type
(comment) @comment
(block_comment) @comment
(string) @string
(interpolated_string) @string
(interpolation) @code
