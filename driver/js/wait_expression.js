(async () => !!(EXPRESSION
))()
