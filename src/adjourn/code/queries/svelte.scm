; What Svelte adds: a value that follows others.
(labeled_statement label: (statement_identifier) @label body: (expression_statement (assignment_expression left: (identifier) @name) @definition.variable) (#eq? @label "$"))
