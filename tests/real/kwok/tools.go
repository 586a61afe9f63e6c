//go:build tools

// Package tools pins a program that the tests start on loopback.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
