from feedline.cli import main

main()
