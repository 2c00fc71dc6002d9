// Package unrepeated logs an error once for as long as it stays the same: what is tried again
// and again would fill the log.
package unrepeated

import "log/slog"

// Log remembers what it logged last. It is for one goroutine.
type Log struct{ last string }

// Error logs what failed and why, unless it did so the last time.
func (u *Log) Error(log *slog.Logger, what string, err error) {
	if err.Error() == u.last {
		return
	}
	u.last = err.Error()
	log.Error(what, "error", err)
}
