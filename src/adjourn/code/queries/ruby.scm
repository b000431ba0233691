; What a Ruby file defines, imports, and says rather than does.
(method name: (_) @name) @definition.method
(singleton_method name: (_) @name) @definition.method
(class name: (_) @name) @definition.class
(module name: (_) @name) @definition.module
(assignment left: (constant) @name) @definition.constant
(alias name: (_) @name) @definition.method
(call method: (identifier) @require (#match? @require "^(require|require_relative|load|autoload)$")) @import
(comment) @comment
(string_content) @string
(heredoc_content) @string
