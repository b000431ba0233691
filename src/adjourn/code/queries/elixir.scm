; What an Elixir file defines, imports, and says rather than does.
(call target: (identifier) @keyword (arguments . (alias) @name) (#eq? @keyword "defmodule")) @definition.module
(call target: (identifier) @keyword (arguments . (alias) @name) (#eq? @keyword "defprotocol")) @definition.interface
(call target: (identifier) @keyword (arguments . (alias) @container) (#eq? @keyword "defimpl")) @within
(call target: (identifier) @keyword
    (arguments . [(identifier) @name
                  (call target: (identifier) @name)
                  (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "when")])
    (#any-of? @keyword "def" "defp" "defguard" "defguardp" "defdelegate" "defn" "defnp")) @definition.function
(call target: (identifier) @keyword
    (arguments . [(identifier) @name
                  (call target: (identifier) @name)
                  (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "when")])
    (#any-of? @keyword "defmacro" "defmacrop")) @definition.macro
(call target: (identifier) @keyword
    (arguments [(keywords (pair key: (keyword) @name))
                (list [(atom) @name (keywords (pair key: (keyword) @name))])])
    (#any-of? @keyword "defstruct" "defexception")) @definition.field
(unary_operator operand: (call target: (identifier) @keyword
    (arguments (binary_operator left: [(identifier) @name (call target: (identifier) @name)] operator: "::")))
    (#any-of? @keyword "type" "typep" "opaque")) @definition.type
(unary_operator operand: (call target: (identifier) @keyword
    (arguments (binary_operator left: (call target: (identifier) @name) operator: "::")))
    (#any-of? @keyword "callback" "macrocallback")) @definition.method
(do_block (unary_operator operator: "@" operand: (call target: (identifier) @name (arguments))
    (#not-match? @name "^(after_compile|after_verify|before_compile|behaviour|callback|compile|deprecated|derive|dialyzer|doc|enforce_keys|external_resource|file|impl|macrocallback|moduledoc|nifs|on_definition|on_load|opaque|optional_callbacks|spec|type|typedoc|typep|vsn)$")) @definition.constant)
(call target: (identifier) @keyword (#any-of? @keyword "alias" "import" "require" "use")) @import
(comment) @comment
(quoted_content) @string
