; Where JavaScript names its classes as TypeScript does not.
(class_declaration name: (identifier) @name) @definition.class
(field_definition property: (_) @name) @definition.field
