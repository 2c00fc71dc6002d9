package testleaks

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// What ends late is no leak.
func TestFind(t *testing.T) {
	before, end := goleak.IgnoreCurrent(), make(chan struct{})
	time.AfterFunc(time.Second, func() { close(end) }) // which is more than goleak waits
	go func() { <-end }()
	if err := Find(before); err != nil {
		t.Error(err)
	}
}
