; What an SQL script creates, and says rather than does.
(create_schema (identifier) @name) @definition.namespace
(create_table (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.table
(create_view (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.view
(create_materialized_view (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.view
(create_function (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.function
(ERROR (keyword_create) [(keyword_function) (keyword_procedure)] . (object_reference schema: (identifier)? @scope name: (identifier) @name) @definition.function)
(ERROR (keyword_create) (keyword_table) . (object_reference schema: (identifier)? @scope name: (identifier) @name) @definition.table)
(ERROR (keyword_create) (keyword_view) . (object_reference schema: (identifier)? @scope name: (identifier) @name) @definition.view)
(ERROR (keyword_create) (keyword_trigger) . (object_reference schema: (identifier)? @scope name: (identifier) @name) @definition.trigger)
(create_type (object_reference schema: (identifier)? @scope name: (identifier) @name) (enum_elements)) @definition.enum
(create_type (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.type
(enum_elements enum_element: (literal) @name @definition.constant)
(create_index column: (identifier) @name) @definition.index
(create_trigger . (keyword_create) (keyword_trigger) . (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.trigger
(create_sequence (object_reference schema: (identifier)? @scope name: (identifier) @name)) @definition.sequence
(alter_table (object_reference name: (identifier) @scope) (add_column (column_definition name: (identifier) @name) @definition.field))
(create_table (column_definitions (column_definition name: (identifier) @name) @definition.field))
(comment) @comment
(marginalia) @comment
((literal) @string (#match? @string "^'"))
