; What a shell script defines, includes, and says rather than does.
(function_definition name: (word) @name) @definition.function
(program (variable_assignment name: (variable_name) @name) @definition.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name) @definition.variable))
(command name: (command_name (word) @source (#match? @source "^(source|\\.)$"))) @import
(comment) @comment
(string_content) @string
(raw_string) @string
(heredoc_body) @string
