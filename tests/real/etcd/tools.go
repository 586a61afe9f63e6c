//go:build tools

// Package tools pins a program that the tests start on loopback.
package tools

import _ "go.etcd.io/etcd/server/v3"
