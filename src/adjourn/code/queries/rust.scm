; What a Rust file defines, imports, and says rather than does.
(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.struct
(union_item name: (type_identifier) @name) @definition.struct
(enum_item name: (type_identifier) @name) @definition.enum
(enum_variant name: (identifier) @name) @definition.constant
(trait_item name: (type_identifier) @name) @definition.trait
(impl_item type: [(type_identifier) @container (generic_type type: (type_identifier) @container) (scoped_type_identifier name: (type_identifier) @container)]) @within
(type_item name: (type_identifier) @name) @definition.type
(mod_item name: (identifier) @name) @definition.module
(macro_definition name: (identifier) @name) @definition.macro
(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.variable
(field_declaration name: (field_identifier) @name) @definition.field
(use_declaration) @import
(extern_crate_declaration) @import
(type_identifier) @type
(line_comment) @comment
(block_comment) @comment
(string_content) @string
