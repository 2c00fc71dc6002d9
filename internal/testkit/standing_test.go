package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

// What has stood still is told, also when it has just begun to run again.
func TestStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest := Standing(t)
		time.Sleep(time.Second)
		if stood := longest(); stood > standingPoll {
			t.Errorf("it stood still for %v", stood)
		}
	})
}
