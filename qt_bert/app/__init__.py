"""The glue between the inspection page and Streamlit: what every page calls.

`visit()` at the top of a page says who looks at what; `draw(figure)` draws any figure; `say(text)`
gives a text in the visitor's language. The rest is the entry's and the launcher's."""
