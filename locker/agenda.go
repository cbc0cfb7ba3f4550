package locker

import "time"

// An agenda has jobs by their times, the earliest first.
//
// Those that come next are in a heap. Those of the quarter of a minute after it lie on
// shelves, one for each slot of time and in no order, from where they go into the heap
// when their slot is next. With a hundred thousand jobs a heap of all would spend its
// time on fetching jobs from memory. What is further away is in the heap, too: that has
// to be renewed seldom.
type agenda struct {
	heap    []entry // each has four below it
	shelves [shelfCount]*job
	shelved int   // how many jobs are on shelves
	opened  int64 // the last slot whose jobs are in the heap
}

type entry struct {
	at  time.Duration // the job's, here too so that it need not be fetched
	job *job
}

const (
	shelfCount = 256
	slotLength = 1 << 26 // ns
)

// Where a job is: in the heap, if its place is larger, or not.
const (
	outside = 0
	onShelf = -1
	over    = -2 // outside for good
)

func slotOf(at time.Duration) int64 { return int64(at / slotLength) }

func (a *agenda) len() int { return len(a.heap) + a.shelved }

// put enters j, or moves it, to its time.
func (a *agenda) put(j *job, at time.Duration) {
	a.remove(j)
	j.at = at
	if slot := slotOf(at); a.opened < slot && slot <= a.opened+shelfCount {
		a.shelve(j)
	} else {
		a.push(j)
	}
}

// remove takes j out, if it is in.
func (a *agenda) remove(j *job) {
	switch {
	case j.place == onShelf:
		a.unshelve(j)
	case j.place > outside:
		i, n := int(j.place)-1, len(a.heap)-1
		last := a.heap[n]
		a.heap[n] = entry{}
		a.heap = a.heap[:n]
		if i < n {
			a.up(i, last)
			a.down(int(last.job.place)-1, last)
		}
	default:
		return
	}
	j.place = outside
}

// first returns the job with the earliest time, nil if there is none.
func (a *agenda) first() *job {
	for a.shelved > 0 {
		slot := a.opened + 1
		for a.shelves[slot%shelfCount] == nil {
			slot++
		}
		if len(a.heap) > 0 && slotOf(a.heap[0].at) < slot {
			break
		}
		a.open(slot)
	}
	if len(a.heap) == 0 {
		return nil
	}
	return a.heap[0].job
}

// passed tells that first is later than now, so that new jobs go onto the shelves from
// there on.
func (a *agenda) passed(now time.Duration) { a.opened = max(a.opened, slotOf(now)) }

// open puts the jobs of the next slot into the heap.
func (a *agenda) open(slot int64) {
	a.opened = slot
	for j := a.shelves[slot%shelfCount]; j != nil; j = a.shelves[slot%shelfCount] {
		a.unshelve(j)
		a.push(j)
	}
}

func (a *agenda) shelve(j *job) {
	head := &a.shelves[slotOf(j.at)%shelfCount]
	j.place, j.before, j.behind = onShelf, nil, *head
	if *head != nil {
		(*head).before = j
	}
	*head = j
	a.shelved++
}

func (a *agenda) unshelve(j *job) {
	if j.before != nil {
		j.before.behind = j.behind
	} else {
		a.shelves[slotOf(j.at)%shelfCount] = j.behind
	}
	if j.behind != nil {
		j.behind.before = j.before
	}
	j.before, j.behind = nil, nil
	a.shelved--
}

func (a *agenda) push(j *job) {
	a.heap = append(a.heap, entry{})
	a.up(len(a.heap)-1, entry{j.at, j})
}

// up sets e at place i of the heap or further up.
func (a *agenda) up(i int, e entry) {
	for i > 0 {
		above := (i - 1) / 4
		if a.heap[above].at <= e.at {
			break
		}
		a.set(i, a.heap[above])
		i = above
	}
	a.set(i, e)
}

// down sets e at place i of the heap or further down.
func (a *agenda) down(i int, e entry) {
	for {
		first := 4*i + 1
		if first >= len(a.heap) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(a.heap)); k++ {
			if a.heap[k].at < a.heap[least].at {
				least = k
			}
		}
		if a.heap[least].at >= e.at {
			break
		}
		a.set(i, a.heap[least])
		i = least
	}
	a.set(i, e)
}

func (a *agenda) set(i int, e entry) {
	a.heap[i] = e
	e.job.place = int32(i + 1)
}

// clear takes all jobs out and returns them.
func (a *agenda) clear() []*job {
	jobs := make([]*job, 0, a.len())
	for j := a.first(); j != nil; j = a.first() {
		a.remove(j)
		jobs = append(jobs, j)
	}
	return jobs
}
