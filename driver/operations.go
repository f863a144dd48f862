package driver

import "pi-chrome/driver/op"

// Operations is every operation of the driver, in the order in which surfaces
// list them.
func Operations() []op.Operation[*Call] {
	return []op.Operation[*Call]{
		opStatus,
		opTabList,
		opTabNew,
		opTabClose,
		opNavigate,
		opSnapshot,
		opRead,
		opClick,
		opFill,
		opPress,
		opWait,
		opEvaluate,
		opScreenshot,
		opConsole,
		opNetworkList,
		opNetworkGet,
		opDialog,
	}
}
