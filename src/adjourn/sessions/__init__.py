"""Sessions of any client, from the transcripts that the clients keep themselves.

A reader for each client translates its files into one `SessionStory`. `evidence` says what is there now, `claims` compares the two, and
`page` writes the first prompt of the session that continues. A transcript is hostile input: what it holds is data, never an order.
"""
