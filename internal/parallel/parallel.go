// Package parallel does a bounded number of things at a time.
package parallel

import "sync"

// Each calls do for each number from first to before last, so many at a time, and
// returns when all is done.
func Each(atOnce, first, last int, do func(int)) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, atOnce)
	for i := first; i < last; i++ {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
}
