((piChromeRun) => { try { piChromeRun.value = (async () => (EXPRESSION
))(); } catch (piChromeThrown) { piChromeRun.thrown = true; piChromeRun.value = piChromeThrown; } return (PROJECT)(piChromeRun, AWAITED); })({ __proto__: null, thrown: false, value: void 0 })
