; The first two levels of keys: deeper ones are data.
(document (object (pair key: (string (string_content) @name)) @definition.key))
(document (object (pair value: (object (pair key: (string (string_content) @name)) @definition.key))))
(pair value: (string (string_content) @string))
(comment) @comment
