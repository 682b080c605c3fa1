from tidelog.cli import main

main()
