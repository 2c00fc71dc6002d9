package admission

// Remembered counts the tenants of which it is known what they had.
func (a *Admission) Remembered() int {
	a.quotas.mu.Lock()
	defer a.quotas.mu.Unlock()
	return len(a.quotas.used)
}

// Waiting is how many requests wait, as this replica sees it.
func (a *Admission) Waiting() int {
	a.demand.mu.Lock()
	defer a.demand.mu.Unlock()
	return len(a.demand.waiting)
}
