// Package docs has no code but tests, which hold the documents of this repository to
// what they say: every Go block is code that compiles and is tested, every link
// resolves, and every test that a document names exists. It is written for whoever
// changes a document.
//
// The code that documents show lies in the packages below code, and in examples.
package docs
