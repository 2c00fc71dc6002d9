// Package testleaks looks for goroutines that tests leave behind.
package testleaks

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Main runs a package's tests, and fails when goroutines are left that do not end.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, options}, options...)
}

// patient runs tests, and waits for what has yet to end.
type patient struct {
	*testing.M
	options []goleak.Option
}

// Run implements goleak.TestingM.
func (p patient) Run() (code int) {
	if code = p.M.Run(); code == 0 {
		_ = Find(p.options...) // goleak looks once more, and says what is left
	}
	return code
}

// Find says which goroutines are left that do not end. goleak's own Find waits for less than
// half a second, in which a busy machine may not have run what was told to end.
func Find(options ...goleak.Option) (err error) {
	for end := time.Now().Add(testkit.Patience); ; {
		if err = goleak.Find(options...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
