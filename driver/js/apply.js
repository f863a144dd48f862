// Calls the function that it is called on. A function that is kept in the page
// is compiled once, and need not be sent again.
function (...args) { return this(...args); }
