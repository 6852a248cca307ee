package executor_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/executor/null"
)

// closing is a runtime that closes an inbox in the middle of a turn.
type closing struct {
	executor.Runtime
	inbox *executor.Inbox
}

func (c closing) Instant() bool {
	c.inbox.Close()
	return false
}

// An inbox that is closed after a turn began ends the run well if nothing is left.
func TestAnInboxClosesAtAnyTime(t *testing.T) {
	e := enginetest.New(t, randomPlatform(rand.New(rand.NewPCG(1, 1))), enginetest.Policy(t, "cpp"))
	e.Inbox = executor.NewInbox()
	e.Runtime = closing{null.New(time.Now()), e.Inbox}
	if _, err := e.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
