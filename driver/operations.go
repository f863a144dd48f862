package driver

import "pi-chrome/driver/op"

// Operations is every operation of the driver, in the order in which surfaces
// list them.
func Operations() []op.Operation[*Call] {
	return []op.Operation[*Call]{
		opStatus,
		opTabList,
		opTabNew,
		opTabActivate,
		opTabClose,
		opTabGroup,
		opTabUngroup,
		opTabClaim,
		opTabRelease,
		opTargets,
		opNavigate,
		opHistory,
		opSnapshot,
		opRead,
		opInspect,
		opFind,
		opClick,
		opType,
		opFill,
		opPress,
		opHover,
		opDrag,
		opTap,
		opScroll,
		opUpload,
		opSelect,
		opWait,
		opEvaluate,
		opScreenshot,
		opConsole,
		opNetworkList,
		opNetworkGet,
		opDialog,
		opAsk,
		opDo,
	}
}
