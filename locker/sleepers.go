package locker

// sleepers are the slots of those who sleep, by when they are to be woken if nothing else
// wakes them: a heap.
type sleepers []*slot

// Len implements [heap.Interface].
func (q sleepers) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q sleepers) Less(i, j int) bool { return q[i].until.Before(q[j].until) }

// Swap implements [heap.Interface].
func (q sleepers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i+1, j+1
}

// Push implements [heap.Interface].
func (q *sleepers) Push(x any) {
	s := x.(*slot)
	*q = append(*q, s)
	s.place = len(*q)
}

// Pop implements [heap.Interface].
func (q *sleepers) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.place = 0
	return s
}
