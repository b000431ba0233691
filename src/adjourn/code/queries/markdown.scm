; The headings of a document, each with its section.
(section (atx_heading heading_content: (inline) @name)) @definition.heading
(section (setext_heading heading_content: (paragraph) @name)) @definition.heading
(html_block) @comment
(paragraph) @string
