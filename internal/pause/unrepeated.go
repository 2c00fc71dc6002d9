package pause

import "log/slog"

// ErrorLog remembers what it logged last. It is for one goroutine.
type ErrorLog struct{ last string }

// Error logs what failed and why, unless it did so the last time.
func (u *ErrorLog) Error(log *slog.Logger, what string, err error) {
	if err.Error() == u.last {
		return
	}
	u.last = err.Error()
	log.Error(what, "error", err)
}
