"""The pages about a topic's messages: the browser, its export, the page that follows new ones, and the comparison."""
