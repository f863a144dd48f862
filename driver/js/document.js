// The frame's document, as its isolated world knows it.
document
