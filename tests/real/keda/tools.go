//go:build tools

// Package tools pins KEDA's operator and metrics adapter, the real callers of our external scaler.
package tools

import (
	_ "github.com/kedacore/keda/v2/cmd/adapter"
	_ "github.com/kedacore/keda/v2/cmd/operator"
)
