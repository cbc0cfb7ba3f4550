module github.com/golocker/golocker/conformance

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/golocker/golocker/locker v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/yuin/gopher-lua v1.1.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/golocker/golocker/locker => ../locker
