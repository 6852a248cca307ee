//go:build race

package oracletest

func init() { part = 6 }
