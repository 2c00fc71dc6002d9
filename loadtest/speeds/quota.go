package speeds

import "time"

// period is that of Linux's bandwidth control.
const period = 100 * time.Millisecond

// quota lets threads have a share of processors: in each period so much of their time, of which what is
// not used is lost and what was used too much is owed.
type quota struct {
	share   time.Duration // of processors' time in a period
	threads int
	left    time.Duration
	next    time.Time // when the next period begins
}

func newQuota(cpus float64, threads int) *quota {
	share := time.Duration(cpus * float64(period))
	return &quota{share: share, threads: threads, left: share, next: time.Now().Add(period)}
}

// call does something with all threads, and stands still until there is time left.
func (q *quota) call(do func() error) error {
	from := time.Now()
	if err := do(); err != nil {
		return err
	}
	now := time.Now()
	q.left -= now.Sub(from) * time.Duration(q.threads)
	for q.pass(now); q.left <= 0; q.pass(time.Now()) {
		time.Sleep(time.Until(q.next))
	}
	return nil
}

// pass begins the periods that have come.
func (q *quota) pass(now time.Time) {
	for !now.Before(q.next) {
		q.left, q.next = min(q.share, q.left+q.share), q.next.Add(period)
	}
}
