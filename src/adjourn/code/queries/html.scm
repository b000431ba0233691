; The ids of an HTML file are what others refer to.
(attribute (attribute_name) @attribute (quoted_attribute_value (attribute_value) @name) (#eq? @attribute "id")) @definition.id
(comment) @comment
(text) @string
