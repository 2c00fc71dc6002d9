package patience

// Budget bounds how often rows are sent again that may be only slow: a share of
// all that are sent, and a few more at once.
type Budget struct {
	// Share of the groups of rows that may be sent again.
	Share float64
	// Most is how many may be after a quiet time.
	Most float64

	left float64
}

// NewBudget returns a full one.
func NewBudget(share, most float64) Budget { return Budget{Share: share, Most: most, left: most} }

// Earn counts a group of rows that was sent for the first time.
func (b *Budget) Earn() { b.left = min(b.left+b.Share, b.Most) }

// Spend takes one re-issue from what is left; false: nothing is.
func (b *Budget) Spend() bool {
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
