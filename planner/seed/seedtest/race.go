//go:build race

package seedtest

func init() { raced = true }
