// Command act is the only program of the image of the tests: its arguments name an action.
package main

import (
	"os"
	"time"
)

func main() {
	switch os.Args[1] {
	case "sleep":
		time.Sleep(5 * time.Minute)
	case "show":
		for _, path := range os.Args[2:] {
			text, err := os.ReadFile(path)
			if err != nil {
				panic(err)
			}
			os.Stdout.Write(text)
		}
	case "fail":
		os.Exit(1)
	case "hold":
		for {
			if _, err := os.Stat("released"); err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
