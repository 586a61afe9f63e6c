//go:build tools

// Package tools pins Kueue's controller manager.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
