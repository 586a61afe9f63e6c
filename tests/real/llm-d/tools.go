//go:build tools

// Package tools pins llm-d's simulated vLLM.
package tools

import _ "github.com/llm-d/llm-d-inference-sim/cmd/llm-d-inference-sim"
